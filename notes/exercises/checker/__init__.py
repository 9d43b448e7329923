"""The checker of the exercises: traces a kernel for races, runs it in the simulator, explains what is wrong."""
