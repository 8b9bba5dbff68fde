"""vLLM (or any server that speaks OpenAI's chat API) as an engine; each checkpoint is spoken to as its profile says."""
