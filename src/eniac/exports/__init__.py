"""Policies for other programs: as a graph for ONNX, and as a file of NumPy; with a model card.

Whatever is written here was compared with the policy itself before, over random and over extreme
observations.
"""
