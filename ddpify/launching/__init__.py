"""Launch files for a distributed script: plain torchrun, Slurm, Kubernetes."""
