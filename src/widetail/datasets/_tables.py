"""Names of the columns of the regression tables."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class TableColumns:
    """Names of the inputs, and what the target is."""

    features: tuple[str, ...]
    target: str


TABLE_COLUMNS: Mapping[str, TableColumns] = {
    "diabetes": TableColumns(
        ("age", "sex", "bmi", "bp", "s1", "s2", "s3", "s4", "s5", "s6"), "disease progression after one year"
    ),
    "boston": TableColumns(
        ("CRIM", "ZN", "INDUS", "CHAS", "NOX", "RM", "AGE", "DIS", "RAD", "TAX", "PTRATIO", "B", "LSTAT"),
        "median home value [1000 USD]",
    ),
    "concrete": TableColumns(
        (
            "cement",
            "slag",
            "fly ash",
            "water",
            "superplasticizer",
            "coarse aggregate",
            "fine aggregate",
            "age",
        ),
        "compressive strength [MPa]",
    ),
    "energy": TableColumns(
        (
            "compactness",
            "surface area",
            "wall area",
            "roof area",
            "height",
            "orientation",
            "glazing area",
            "glazing distribution",
        ),
        "heating load [kWh/m²]",
    ),
    "kin8nm": TableColumns(
        tuple(f"joint angle {i}" for i in range(1, 9)), "distance of the end effector from its target"
    ),
    "naval": TableColumns(
        (
            "lever position",
            "ship speed",
            "gas turbine shaft torque",
            "gas turbine revolutions",
            "gas generator revolutions",
            "starboard propeller torque",
            "port propeller torque",
            "turbine exit temperature",
            "compressor inlet temperature",
            "compressor outlet temperature",
            "turbine exit pressure",
            "compressor inlet pressure",
            "compressor outlet pressure",
            "exhaust gas pressure",
            "turbine injection control",
            "fuel flow",
        ),
        "compressor decay coefficient",
    ),
    "power": TableColumns(
        ("temperature", "exhaust vacuum", "ambient pressure", "relative humidity"),
        "net electrical output [MW]",
    ),
    "wine_red": TableColumns(
        (
            "fixed acidity",
            "volatile acidity",
            "citric acid",
            "residual sugar",
            "chlorides",
            "free sulphur dioxide",
            "total sulphur dioxide",
            "density",
            "pH",
            "sulphates",
            "alcohol",
        ),
        "quality [3 to 8]",
    ),
    "yacht": TableColumns(
        (
            "longitudinal position of the centre of buoyancy",
            "prismatic coefficient",
            "length-displacement ratio",
            "beam-draught ratio",
            "length-beam ratio",
            "Froude number",
        ),
        "residuary resistance per unit weight of displacement",
    ),
}
