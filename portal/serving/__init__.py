"""The GPU box: one copy of the weights, several vLLM instances that read it, one router in front of them."""
