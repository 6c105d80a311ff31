"""What a step costs: GPUs and models, rooflines, tables of measured kernels."""
