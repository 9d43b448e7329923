"""What users call: `sgemm`, `plan`, `gemv`, `padded`. Arguments are checked here, before anything is launched."""
