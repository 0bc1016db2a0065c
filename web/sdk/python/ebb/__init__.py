"""ebb for Python: credentials for sandboxes, tasks for runners, and a verifier for resource servers.

    from ebb import Sandbox, load_or_create_key

    sandbox = Sandbox("https://ebb.example.com", load_or_create_key("sandbox.key"))
    sandbox.enrol(ticket)
    credential = sandbox.token("orders:eu/42:read", reason="read the order")
    answer = sandbox.request(credential, "GET", "https://orders.example.com/eu/42")

sandbox.py has Sandbox, runner.py Runner, verify.py Verifier, wsgi.py and asgi.py its middleware, keys.py private keys,
errors.py every error, scopes.py the grammar of scopes.
"""

from ._http import Answer
from .errors import Advice, BadAnswer, EbbError, NotDecided, Pending, Problem, Unreachable, UsageError
from .keys import PrivateKey, jkt, load_key, load_or_create_key, new_key, parse_key, public_jwk, save_key
from .runner import Completion, Runner, Task, Ticket
from .sandbox import Credential, Enrolment, Sandbox
from .scopes import ScopeSet

__all__ = [
    "Advice", "Answer", "BadAnswer", "Completion", "Credential", "EbbError", "Enrolment", "NotDecided", "Pending", "PrivateKey",
    "Problem", "Runner", "Sandbox", "ScopeSet", "Task", "Ticket", "Unreachable", "UsageError", "jkt", "load_key",
    "load_or_create_key", "new_key", "parse_key", "public_jwk", "save_key",
]  # fmt: skip
