"""``load``: the memory for one turn, within a time budget, never an exception."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TypeVar

from memory.model.budget import cut_to_budget
from memory.model.directory import DEFAULT_ROOT_FOLDER, MemoryFacts, SpaceSettings
from memory.model.enablement import Enablement, ReasonCode, effective_enablement
from memory.model.errors import AfterturnError, InvalidInput, RootClash, UnreadableProfile
from memory.model.profile import render_body
from memory.model.redaction import warm_up as warm_up_redaction
from memory.model.scope import Scope
from memory.ports import Directory, ModelProvider, TokenCounter
from memory.profiles import Profiles, ProfileSnapshot
from memory.settings import Settings
from starter.faults import fault
from starter.guard import Guard, Missed
from starter.relay import NoticeRelay
from starter.views import LoadedMemory, LoadReason

INLINE_COUNT_BYTES = 48 * 1024
"""A text up to this size is counted on the spot (a few milliseconds), a longer one in a thread."""
REMEMBERED = 2_000
REMEMBERED_CUTS = 50
CLASH_WARNING_S = 60.0
TRY_OUT_S = 2.0
"""A store that is tried out is waited for at most so long."""
_NOBODY = Scope.of("warm-up", "warm-up")
MARGIN = 0.03
"""Share of the budget that is kept back for coming home."""

_T = TypeVar("_T")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Fitted:
    """A body within its budget. ``body`` is None where it is the stored one."""

    tokens: int | None
    body: str | None = None


@dataclass(frozen=True, slots=True)
class _Early:
    """A read that was begun before it was known whether it is wanted."""

    root: str
    task: asyncio.Task[ProfileSnapshot]

    def drop(self) -> None:
        """Whatever comes of it, nobody asks."""
        self.task.cancel()
        self.task.add_done_callback(lambda task: None if task.cancelled() else task.exception())


class Loader:
    """Reads profiles for turns. For one event loop; safe for many tasks."""

    def __init__(
        self,
        settings: Settings,
        *,
        directory: Directory,
        profiles: Profiles,
        models: ModelProvider,
        tables: Guard,
        objects: Guard,
        relay: NoticeRelay,
    ) -> None:
        self._settings = settings
        self._directory = directory
        self._profiles = profiles
        self._models = models
        self._tables = tables
        self._objects = objects
        self._relay = relay
        self._threads = ThreadPoolExecutor(2, "afterturn-count")
        self._counting = Guard("the token counter", limit=2)
        self._warm: set[str] = set()
        self._known: OrderedDict[tuple[Scope, str, str, int], _Fitted] = OrderedDict()
        self._cuts = 0
        self._clash_told: OrderedDict[str, float] = OrderedDict()
        self._roots: OrderedDict[Scope, str] = OrderedDict()

    # -------------------------------------------------------------------------------------------------------- enablement

    def rule(
        self,
        scope: Scope,
        facts: MemoryFacts,
        *,
        allow_user_memory: bool,
        web_search: bool | None,
        accepted_at: datetime | None = None,
    ) -> Enablement:
        """Whether memory is on, by what the stores say. ``accepted_at``: of what is to be recorded."""
        return effective_enablement(
            feature_flag=self._settings.feature_flag,
            allow_with_web_search=self._settings.allow_with_web_search,
            tenant=scope.tenant,
            facts=facts,
            allow_user_memory=allow_user_memory,
            web_search=web_search,
            accepted_at=accepted_at,
        )

    def rule_without_stores(self, scope: Scope, *, allow_user_memory: bool) -> Enablement:
        """The conditions that need no store: where one of them says no, none is asked."""
        nothing_known = MemoryFacts(space=SpaceSettings(), user_allows=True, active_roots=())
        return self.rule(scope, nothing_known, allow_user_memory=allow_user_memory, web_search=False)

    # --------------------------------------------------------------------------------------------------------------- load

    async def load(
        self,
        scope: Scope,
        *,
        space_id: str,
        allow_user_memory: bool,
        web_search: bool | None,
        language_model: str | None,
    ) -> LoadedMemory:
        """Within ``load_budget_ms``; every fault is a reason in the result."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        deadline = started + self._settings.load_budget_ms / 1000 * (1 - MARGIN)
        notice_id: str | None = None
        early: _Early | None = None
        active = False
        try:
            enablement = self.rule_without_stores(scope, allow_user_memory=allow_user_memory)
            if enablement.active:
                early = self._read_early(scope, deadline)
                if early is not None:
                    # Two rounds of the event loop, and the slower of the two requests is on its way first.
                    await asyncio.sleep(0)
                    await asyncio.sleep(0)
                facts = await self._tables.call(lambda: self._directory.facts(scope, space_id), deadline=deadline)
                enablement = self.rule(scope, facts, allow_user_memory=allow_user_memory, web_search=web_search)
                active = enablement.active
                if active:
                    notice_id = self._relay.started(scope)
                    loaded = await self._read(scope, facts, early, language_model, deadline)
                else:
                    self._roots.pop(scope, None)
                    self._tell_clash(scope, enablement, loop.time())
                    loaded = _off(enablement)
            else:
                loaded = _off(enablement)
        except Missed as error:
            loaded = LoadedMemory(reason=LoadReason.BUSY if error.busy else LoadReason.TIMEOUT, detail=error.message)
        except UnreadableProfile as error:
            loaded = LoadedMemory(reason=LoadReason.UNREADABLE, detail=error.message, version=error.version, etag=error.etag)
        except InvalidInput as error:
            loaded = LoadedMemory(reason=LoadReason.INVALID_ID, detail=error.message)
        except AfterturnError as error:
            loaded = LoadedMemory(reason=LoadReason.UNAVAILABLE, detail=error.message)
        except Exception as error:  # noqa: BLE001 - an answer never fails because of memory
            _log.error("load failed for %s/%s: %s", scope.tenant, scope.user, fault(error))
            loaded = LoadedMemory(reason=LoadReason.ERROR, detail=fault(error))
        if early is not None:
            early.drop()
        failed = loaded.reason not in (None, LoadReason.NO_PROFILE)
        self._relay.ended(scope, notice_id, failed=failed)
        if failed and loaded.reason is not LoadReason.OFF:
            level = logging.DEBUG if loaded.reason is LoadReason.BUSY else logging.WARNING
            _log.log(level, "no memory for %s/%s: %s: %s", scope.tenant, scope.user, loaded.reason, loaded.detail)
        return replace(loaded, active=active, elapsed_ms=(loop.time() - started) * 1000)

    def _read_early(self, scope: Scope, deadline: float) -> _Early | None:
        """Read beside the question whether memory is on, for a user for whom it was on last time. Dropped when the answer is no."""
        root = self._roots.get(scope)
        return None if root is None else _Early(root, asyncio.create_task(self._read_stored(scope, root, deadline)))

    async def _read_stored(self, scope: Scope, root: str, deadline: float) -> ProfileSnapshot:
        return await self._objects.call(lambda: self._profiles.read(scope, root), deadline=deadline)

    async def _read(
        self, scope: Scope, facts: MemoryFacts, early: _Early | None, language_model: str | None, deadline: float
    ) -> LoadedMemory:
        root = root_of(facts)
        if early is not None and early.root == root:
            found = await early.task
        else:
            found = await self._read_stored(scope, root, deadline)
        self._roots[scope] = root
        self._roots.move_to_end(scope)
        if len(self._roots) > REMEMBERED:
            self._roots.popitem(last=False)
        if not found.exists or found.document.profile.is_empty:
            return LoadedMemory(active=True, reason=LoadReason.NO_PROFILE, version=found.version, etag=found.etag, tokens=0)
        fitted = await self._fit(scope, found, self.counter(facts.space, language_model), facts.space.max_tokens, deadline)
        return LoadedMemory(
            body=found.document.body if fitted.body is None else fitted.body,
            active=True,
            version=found.version,
            etag=found.etag,
            tokens=fitted.tokens,
            truncated=fitted.body is not None or found.document.profile.truncated,
        )

    def _tell_clash(self, scope: Scope, enablement: Enablement, now: float) -> None:
        """The administrator reads logs and ``afterturn doctor``; once a minute and company is enough."""
        clash = [reason for reason in enablement.reasons if reason.code is ReasonCode.ROOT_CLASH]
        told = self._clash_told.get(scope.tenant)
        if not clash or (told is not None and now - told < CLASH_WARNING_S):
            return
        self._clash_told[scope.tenant] = now
        self._clash_told.move_to_end(scope.tenant)
        if len(self._clash_told) > REMEMBERED:
            self._clash_told.popitem(last=False)
        _log.error("memory of the company %s is off: %s; %s", scope.tenant, clash[0].message, clash[0].remedy)

    # ------------------------------------------------------------------------------------------------------------- budget

    def counter(self, space: SpaceSettings, language_model: str | None = None) -> TokenCounter:
        """The tokenizer of the space's memory model; ``language_model``: the turn's own, where it is known."""
        own = language_model if space.use_orchestrator_language_model else space.language_model
        for name in (own, self._settings.language_model):
            try:
                if name:
                    return self._models.token_counter(name)
            except InvalidInput:
                continue
        return self._models.token_counter("simulated")

    async def count(self, counter: TokenCounter, text: str) -> int:
        """Tokens of a text, in a thread where that takes long."""
        if counter.name in self._warm and len(text) * 4 <= INLINE_COUNT_BYTES:
            return counter.count(text)
        return await self._in_thread(lambda: self._count(counter, text))

    async def _fit(self, scope: Scope, found: ProfileSnapshot, counter: TokenCounter, max_tokens: int, deadline: float) -> _Fitted:
        body = found.document.body
        size = len(body.encode("utf-8", "replace"))
        if size <= max_tokens:
            return _Fitted(None)  # no token is shorter than a byte
        key = (scope, found.etag or "", counter.name, max_tokens)
        known = self._known.get(key)
        if known is not None:
            self._known.move_to_end(key)
            return known
        if counter.name in self._warm and size <= INLINE_COUNT_BYTES:
            tokens = counter.count(body)
            if tokens <= max_tokens:
                return self._remember(key, _Fitted(tokens))

        async def fit() -> _Fitted:
            # Runs to its end even when this load has given up: then the next one finds the result.
            return self._remember(key, await self._in_thread(lambda: self._fit_now(found, counter, max_tokens)))

        return await self._counting.call(fit, deadline=deadline)

    def _fit_now(self, found: ProfileSnapshot, counter: TokenCounter, max_tokens: int) -> _Fitted:
        tokens = self._count(counter, found.document.body)
        if tokens <= max_tokens:
            return _Fitted(tokens)
        cut = cut_to_budget(found.document.profile, counter.count, max_tokens, today=datetime.now(UTC).date())
        body = render_body(cut)
        return _Fitted(counter.count(body), body)

    def _count(self, counter: TokenCounter, text: str) -> int:
        tokens = counter.count(text)
        self._warm.add(counter.name)
        return tokens

    def _remember(self, key: tuple[Scope, str, str, int], fitted: _Fitted) -> _Fitted:
        before = self._known.pop(key, None)
        self._cuts -= before is not None and before.body is not None
        self._known[key] = fitted
        self._cuts += fitted.body is not None
        while len(self._known) > REMEMBERED or self._cuts > REMEMBERED_CUTS:
            _, oldest = self._known.popitem(last=False)
            self._cuts -= oldest.body is not None
        return fitted

    async def _in_thread(self, work: Callable[[], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    async def warm_up(self) -> None:
        """Load the tables of the tokenizer and of redaction (about a second of work) before the first turn needs them."""
        await self._in_thread(self._load_tables)

    async def meet_stores(self) -> None:
        """Connect to the stores before the first turn has to. Asks each once, makes nothing, waits for none that is away."""
        if not self._settings.feature_flag:
            return
        await asyncio.gather(
            _try_out("the database", self._directory.facts(_NOBODY, "default")),
            _try_out("the object store", self._profiles.read(_NOBODY, DEFAULT_ROOT_FOLDER)),
        )

    def _load_tables(self) -> None:
        warm_up_redaction()
        try:
            self._count(self.counter(SpaceSettings()), "warm")
        except AfterturnError as error:
            _log.error("tokens cannot be counted: %s", error.message)

    def forget(self, scope: Scope) -> None:
        """What this process remembers of the user's profile."""
        self._profiles.forget_recent(scope)
        self._roots.pop(scope, None)
        for key in [key for key in self._known if key[0] == scope]:
            self._cuts -= self._known.pop(key).body is not None

    async def aclose(self, *, within_s: float) -> None:
        await self._counting.aclose(within_s=within_s)
        self._threads.shutdown(wait=False, cancel_futures=True)


async def _try_out(what: str, call: Awaitable[object]) -> None:
    """Whatever is wrong with it, the first turn will say so."""
    try:
        async with asyncio.timeout(TRY_OUT_S):
            await call
    except Exception as error:  # noqa: BLE001
        _log.debug("%s is not warm: %s", what, fault(error))


def root_of(facts: MemoryFacts) -> str:
    """The company's one root. Raises RootClash when several are active."""
    if len(facts.active_roots) > 1:
        raise RootClash(f"the company has {len(facts.active_roots)} active memory roots: {', '.join(sorted(facts.active_roots))}")
    return facts.active_roots[0] if facts.active_roots else facts.space.root_folder


def _off(enablement: Enablement) -> LoadedMemory:
    return LoadedMemory(
        reason=LoadReason.OFF,
        reasons=tuple(reason.code.value for reason in enablement.reasons),
        detail=enablement.reasons[0].message,
    )
