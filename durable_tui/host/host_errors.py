"""What stops a front end before a session is open. Every message is fit for a person and says what to do."""

from __future__ import annotations


class HostError(Exception):
    """Usage, configuration, a missing key, model or directory."""


class ConfigError(HostError):
    """The configuration is wrong; the message begins with file, line and key."""


class ModelMissing(HostError):
    """No model can be used: none chosen, unknown, or its key is missing."""


class SessionUnknown(HostError):
    """No session, or more than one, answers to what was given."""
