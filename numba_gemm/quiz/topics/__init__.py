"""The questions, a module a topic: each has its `TOPIC` and `questions()`, which computes them."""
