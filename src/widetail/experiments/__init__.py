"""The paper's experiments, and ours, each as a configuration, a run and a result."""
