"""The parts of the network, and how a Spec puts them together."""
