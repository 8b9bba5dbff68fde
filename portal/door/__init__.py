"""The OpenAI door: one page image in, what vLLM says of it out, with the admission, the gate and the ledger of jobs."""
