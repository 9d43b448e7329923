"""The quiz: questions whose numbers the models compute, and exercises that are kernels to repair."""
