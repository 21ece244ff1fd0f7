"""What starts environments: the only folder that starts processes or containers."""
