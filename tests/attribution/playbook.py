"""A playbook for attribution: what happens on the left, what the rules want done on the right.

    play.place("a", tool="deploy") << Send("a", 1)
    play.asks(1, "q1") << Give("q1", "a")
    play.after(0.1) << nothing

Runs and asks have names, sessions are numbered in the order in which they were opened. What is not on the right must
not happen.
"""

from __future__ import annotations

from dataclasses import dataclass

from bridge import attribution as rules
from bridge.knowledge import Hint, Knowledge
from legacy.messages import Ask


@dataclass(frozen=True)
class Send:
    run: str
    session: int


@dataclass(frozen=True)
class Give:
    ask: str
    run: str
    inferred: bool = False


@dataclass(frozen=True)
class Refuse:
    ask: str
    lapsed: bool = False


@dataclass(frozen=True)
class Resume:
    run: str


@dataclass(frozen=True)
class Withdraw:
    ask: str
    run: str


@dataclass(frozen=True)
class Hold:
    ask: str


@dataclass(frozen=True)
class LastRoots:
    ask: str


@dataclass(frozen=True)
class Forgotten:
    run: str


@dataclass(frozen=True)
class OpenSession:
    pass


@dataclass(frozen=True)
class EndSession:
    session: int


Step = EndSession | Send | Give | Refuse | Resume | Withdraw | Hold | LastRoots | Forgotten | OpenSession
nothing: tuple[Step, ...] = ()
opened = OpenSession()


class Then:
    """What came of it, to be compared with what should."""

    def __init__(self, steps: tuple[Step, ...]) -> None:
        self.steps = steps

    def __lshift__(self, expected: Step | tuple[Step, ...]) -> None:
        assert self.steps == (expected if isinstance(expected, tuple) else (expected,))


class Play:
    def __init__(
        self,
        *,
        sessions: int = 1,
        max_sessions: int = 4,
        strict: bool = False,
        shared: bool = False,
        one_call: bool = False,
        hints: dict[str, Hint] | None = None,
    ) -> None:
        self.now = 100.0
        self.knowledge = Knowledge(hints)
        self.rules = rules.Attribution(
            self.knowledge, max_sessions=max_sessions, strict=strict, shared=shared, one_call=one_call
        )
        self.runs: dict[str, rules.Run] = {}
        self.asks_by_name: dict[str, Ask] = {}
        self.channels: dict[int, rules.Channel] = {}
        for _ in range(sessions):
            self.opens() << nothing

    def quiet(self, *tools: str, took: float = 0.01) -> None:
        """Teach that these tools do not ask."""
        for tool in tools:
            for _ in range(5):
                self.knowledge.learned_done(tool, took)

    def one(self, *tools: str) -> None:
        """Teach that these ask one thing after the other."""
        for tool in tools:
            for _ in range(3):
                self.knowledge.learned_ask(tool, 0)

    def many(self, *tools: str) -> None:
        """Teach that these ask several things at once."""
        for tool in tools:
            for outstanding in (0, 1, 2):
                self.knowledge.learned_ask(tool, outstanding)

    def opens(self, *, unlabelled: bool = True) -> Then:
        channel = rules.Channel(unlabelled=unlabelled)
        self.channels[len(self.channels) + 1] = channel
        return self._then(self.rules.open_channel(channel, self.now))

    def closes(self, session: int) -> Then:
        return self._then(self.rules.close_channel(self.channels[session], self.now))

    def cannot_open(self) -> Then:
        return self._then(self.rules.session_failed(self.now))

    def place(
        self,
        name: str,
        tool: str | None = "tool",
        *,
        may_be_asked: bool = True,
        carries_roots: bool = True,
        owner: str = "",
    ) -> Then:
        run = rules.Run(tool, may_be_asked=may_be_asked, carries_roots=carries_roots, owner=owner)
        self.runs[name] = run
        return self._then(self.rules.place(run, self.now))

    def lists(self, name: str) -> Then:
        return self.place(name, None, may_be_asked=False, carries_roots=False)

    def suspends(self, name: str) -> Then:
        return self._then(self.rules.suspended(self.runs[name], self.now))

    def resumes(self, name: str) -> Then:
        return self._then(self.rules.wants_to_resume(self.runs[name], self.now))

    def ends(self, name: str) -> Then:
        return self._then(self.rules.answered(self.runs[name], self.now))

    def cancels(self, name: str) -> Then:
        return self._then(self.rules.cancelled(self.runs[name], self.now))

    def ghost_ends(self, name: str) -> Then:
        return self._then(self.rules.ghost_ended(self.runs[name], self.now))

    def asks(self, session: int, name: str, *, label: str | None = None, on_post: bool = True) -> Then:
        return self._asked(session, name, "elicitation/create", label, on_post, last_roots=False)

    def asks_roots(self, session: int, name: str, *, label: str | None = None, last_roots: bool = False) -> Then:
        return self._asked(session, name, "roots/list", label, True, last_roots=last_roots)

    def roots_known(self) -> Then:
        """A client answered for its roots."""
        return self._then(self.rules.roots_known())

    def closed(self, name: str) -> Then:
        """The ask was answered, or the server withdrew it."""
        return self._then(self.rules.ask_closed(self.asks_by_name[name], self.now))

    def after(self, seconds: float) -> Then:
        """Time passes; the rules are woken whenever they want to be."""
        end = self.now + seconds
        steps: tuple[Step, ...] = ()
        while (deadline := self.rules.deadline()) is not None and deadline <= end:
            self.now = max(self.now, deadline)
            steps += self._then(self.rules.tick(self.now)).steps
        self.now = end
        return Then(steps + self._then(self.rules.tick(end)).steps)

    def _asked(
        self, session: int, name: str, method: str, label: str | None, on_post: bool, *, last_roots: bool
    ) -> Then:
        ask = Ask(method, {}, name, 1 if label and on_post else None, self.now)
        self.asks_by_name[name] = ask
        run = self.runs[label] if label else None
        roots = method == "roots/list"
        return self._then(
            self.rules.asked(self.channels[session], ask, self.now, label=run, roots=roots, last_roots=last_roots)
        )

    def _then(self, commands: list[rules.Command]) -> Then:
        return Then(tuple(self._step(command) for command in commands))

    def _step(self, command: rules.Command) -> Step:
        match command:
            case rules.Send(run, channel):
                return Send(self._name(run), next(n for n, c in self.channels.items() if c is channel))
            case rules.Give(ask, run, inferred):
                return Give(str(ask.server_id), self._name(run), inferred)
            case rules.Refuse(ask, _, lapsed):
                return Refuse(str(ask.server_id), lapsed)
            case rules.Resume(run):
                return Resume(self._name(run))
            case rules.Withdraw(ask, run):
                return Withdraw(str(ask.server_id), self._name(run))
            case rules.Hold(ask):
                return Hold(str(ask.server_id))
            case rules.LastRoots(ask):
                return LastRoots(str(ask.server_id))
            case rules.Forgotten(run):
                return Forgotten(self._name(run))
            case rules.EndSession(channel):
                return EndSession(next(n for n, c in self.channels.items() if c is channel))
            case rules.OpenSession():
                return opened

    def _name(self, run: rules.Run) -> str:
        return next(name for name, known in self.runs.items() if known is run)


__all__ = [
    "EndSession", "Forgotten", "Give", "Hold", "LastRoots", "OpenSession", "Play", "Refuse", "Resume", "Send",
    "Withdraw", "nothing", "opened",
]  # fmt: skip
