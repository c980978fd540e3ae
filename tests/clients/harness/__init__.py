"""Runs real agent clients through the gateway; `../run` is the command."""
