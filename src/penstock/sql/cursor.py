"""A cursor over the words of a statement, with errors that point at the token they are about."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn, TypeVar

from sqlglot.errors import ParseError
from sqlglot.parsers.postgres import PostgresParser
from sqlglot.tokenizer_core import Token, TokenType

from penstock.errors import PenstockError, error
from penstock.sql.positions import Span, point, span_of_token

Item = TypeVar("Item")
_STRINGS = {TokenType.STRING, TokenType.HEREDOC_STRING}


class UnexpectedToken(ParseError):
    """sqlglot's complaint, with the token it stumbled over."""

    def __init__(self, message: str, token: Token) -> None:
        super().__init__(message, [{"description": message, "line": token.line, "col": token.col}])
        self.token = token
        self.description = message


class Cursor(PostgresParser):
    """sqlglot's parser with the helpers that `grammar/` is written in."""

    # -- errors

    def raise_error(self, message: str, token: Token = Token(TokenType.SENTINEL, "")) -> None:
        raise UnexpectedToken(message, token or self._curr or self.end_token())

    def _parse_as_command(self, start: Token) -> NoReturn:
        # sqlglot would take the rest as a text for another database, with a warning.
        raise UnexpectedToken("Unexpected statement", start)

    def _parse_command(self) -> NoReturn:
        raise UnexpectedToken("Unexpected statement", self._prev)

    def end_token(self) -> Token:
        """A token just behind the statement, for what is missing there."""
        last = self._tokens[-1] if self._tokens else Token(TokenType.VAR, "", 1, 1, 0, -1)
        return Token(TokenType.SENTINEL, "", last.line, last.col + 1, last.end + 1, last.end)

    def fail(self, failure: PenstockError, token: Token | None = None) -> PenstockError:
        return point(failure, self.sql, span_of_token(token or self._curr or self.end_token()))

    @contextmanager
    def pointing(self, token: Token) -> Iterator[None]:
        """Errors inside get a caret at a token, unless they have one."""
        try:
            yield
        except PenstockError as failure:
            raise self.fail(failure, token) from None

    def expected(self, what: str) -> PenstockError:
        """The error for anything else than `what` standing here."""
        found = f'found "{self._curr.text}"' if self._curr else "the statement ends here"
        return self.fail(error("syntax_error", detail=f"expected {what}, {found}"))

    # -- the words of a statement, for grammar/

    @property
    def here(self) -> Token:
        return self._curr or self.end_token()

    @property
    def last(self) -> Token:
        return self._prev

    def at_end(self) -> bool:
        return not self._curr

    def skip(self, count: int = 1) -> None:
        self._advance(count)

    def back(self) -> None:
        self._advance(-1)

    def before(self, word: str) -> list[Token]:
        """The tokens from here up to a word that no parentheses enclose; all that are left where it is missing."""
        depth, index = 0, self._index
        while index < self._tokens_size:
            token = self._tokens[index]
            depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
            if depth <= 0 and token.token_type != TokenType.IDENTIFIER and token.text.upper() == word:
                break
            index += 1
        return list(self._tokens[self._index : index])

    def peek(self, *words: str) -> bool:
        return self._standing(words) > 0

    def take(self, *words: str) -> bool:
        """Step over these words (or marks) if they stand here."""
        count = self._standing(words)
        if count:
            self._advance(count)
        return count > 0

    def need(self, *words: str) -> None:
        if not self.take(*words):
            for word in words[:-1]:
                if not self.take(word):
                    break
            raise self.expected(" ".join(words) if words[0].isalpha() else f'"{words[0]}"')

    def _standing(self, words: tuple[str, ...]) -> int:
        """How many tokens these words make up here, 0 if they do not stand here. PRIMARY KEY is one token."""
        if len(words) == 1 and not self._curr.text.upper().startswith(words[0]):
            return 0
        left, index = list(words), self._index
        while left:
            token = self._tokens[index] if index < self._tokens_size else None
            if token is None or token.token_type in self.TEXT_MATCH_EXCLUDED_TOKENS:
                return 0
            parts = token.text.upper().split()
            if not parts or left[: len(parts)] != parts:
                return 0
            left, index = left[len(parts) :], index + 1
        return index - self._index

    def name(self, what: str) -> tuple[str, Span]:
        """An identifier, folded to lower case unless quoted."""
        token = self._curr
        if token.token_type == TokenType.IDENTIFIER:
            self._advance()
            return token.text, span_of_token(token)
        if token and (token.token_type in self.ID_VAR_TOKENS or token.token_type == TokenType.VAR):
            self._advance()
            return token.text.lower(), span_of_token(token)
        raise self.expected(what)

    def new_name(self, kind: str) -> tuple[bool, str, Span]:
        """The name of what CREATE makes, and whether IF NOT EXISTS stands before it."""
        return self.take("IF", "NOT", "EXISTS"), *self.name(f"the name of the {kind}")

    def name_or_text(self, what: str) -> str:
        return self.text_literal(what) if self._curr.token_type in _STRINGS else self.name(what)[0]

    def text_literal(self, what: str) -> str:
        if self._curr.token_type not in _STRINGS:
            raise self.expected(what)
        self._advance()
        return self._prev.text

    def integer(self, what: str) -> int:
        if self._curr.token_type != TokenType.NUMBER or not self._curr.text.isdigit():
            raise self.expected(what)
        self._advance()
        return int(self._prev.text)

    def listed(self, item: Callable[[], Item]) -> tuple[Item, ...]:
        """`( item, item, ... )`"""
        self.need("(")
        items = self.several(item)
        self.need(")")
        return items

    def several(self, item: Callable[[], Item]) -> tuple[Item, ...]:
        """`item, item, ...`"""
        items = [item()]
        while self.take(","):
            items.append(item())
        return tuple(items)
