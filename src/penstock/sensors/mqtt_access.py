"""How one gets in at an MQTT broker: options that tables that read from it and sinks that write to it have in common."""

from __future__ import annotations

from penstock.sensors.base import Option
from penstock.sensors.options import flag

ACCESS = (
    Option("username", "", "User at the broker."),
    Option("password", "", "Password; stored in the data folder and never shown. Better: one of the next two."),
    Option("password_file", "", "File with the password, read at every connection."),
    Option("password_env", "", "Environment variable of the server with the password."),
    Option("ca", "", "File with the certificates that sign the broker's; empty means the system's."),
    Option("certificate", "", "File with a client certificate."),
    Option("key", "", "File with the key of the client certificate."),
    Option("insecure", "false", "Whether to take any certificate of the broker.", flag),
)
