"""What tests have in common: operands, references, judgements."""
