"""Proves on a card what the sharing of weights stands on: `python -m ocr_shared_weights.gpu_check`, within 8 minutes.

It needs torch and cuda-bindings, not vLLM: real stores and transports, random weights in blocks as wide as those of
LightOnOCR. On CPU it runs what can be run there, so that the script itself is tested.
"""
