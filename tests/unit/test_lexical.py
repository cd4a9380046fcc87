"""Lexical search over texts alone: which query meets which document, in which language, and what is bounded."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from memory.model.lexical import MAX_QUERY_TERMS, MAX_TERMS, document_terms, name_words, query_terms, term_id
from memory.model.lexical_bm25 import document_weights, query_weights, rarity, score
from memory.model.lexical_dates import date_terms, query_date_terms
from memory.model.lexical_languages import latin_languages
from memory.model.lexical_text import words

NUMBERS = [3313285705, 2794255430, 3933546873]


def points(query: str, text: str) -> float:
    """How well the text fits the query where every term is equally rare."""
    wanted = query_weights(query_terms(query), documents=10, frequencies={})
    return score(wanted, document_weights(document_terms(text), usual_length=30))


def best(query: str, *texts: str) -> str:
    """The text that fits best, by the rarity of terms among these."""
    bags = [document_terms(text) for text in texts]
    frequencies: dict[int, int] = {}
    for bag in bags:
        for term in bag:
            frequencies[term] = frequencies.get(term, 0) + 1
    wanted = query_weights(query_terms(query), documents=len(bags), frequencies=frequencies)
    scores = [score(wanted, document_weights(bag, usual_length=30)) for bag in bags]
    assert max(scores) > 0
    return texts[scores.index(max(scores))]


@pytest.mark.parametrize(
    ("query", "text"),
    [
        # English: endings, possessives, contractions, quotation marks
        ("Which races did she run?", "I ran in a charity race last week"),
        ("Melanie's painting", "melanie paints"),
        ("Melanie’s painting", "Melanie's paintings"),
        # German: endings, umlauts, compounds both ways
        ("Versicherung", "Die Krankenversicherung wird im Mai gekündigt"),
        ("Versicherung", "Krankenversicherung"),
        ("Versicherungen", "Meine Krankenversicherung ist teuer"),
        ("Krankenversicherung", "Die Versicherung hat geantwortet"),
        ("Kranken", "Krankenversicherung"),
        ("häuser", "Das Haus am See ist verkauft"),
        ("strasse", "Wir wohnen in der Hauptstraße"),
        ("Muller", "Herr Müller ruft an"),
        # French, Spanish, Italian, Portuguese, Dutch, Russian, Turkish, Greek, Hindi
        ("l'école", "les écoles sont fermées"),
        ("ecole", "L’école ouvre demain"),
        ("canciones", "me gusta esta canción"),
        ("dell'università", "le università sono aperte"),
        ("cidades", "a cidade fica longe"),
        ("fietsen", "ik heb een nieuwe fiets"),
        ("книги", "Я читаю книгу"),
        ("книга", "эта книга интересная"),
        ("kitaplar", "bu kitapları okudum"),
        ("θάλασσα", "το χρώμα της θαλασσας"),
        ("किताबें", "मैंने किताब पढ़ी"),
        # Chinese, Japanese, Korean, Thai
        ("苹果", "我喜欢吃苹果"),
        ("猫", "她养了一只猫。"),
        ("東京", "来週東京に行きます"),
        ("ガソリン", "ｶﾞｿﾘﾝを買った"),
        ("猫", "猫が好きです"),
        ("집", "내일 집에 가요"),
        ("서울", "서울에서 만나요"),
        ("กาแฟ", "ฉันชอบดื่มกาแฟตอนเช้า"),
        # Arabic: article, points, forms of alef, ya and ta marbuta; Persian letters
        ("مدرسة", "ذهبت إلى المدرسة اليوم"),
        ("المَدْرَسَة", "مدرسه جديدة"),
        ("احمد", "أحمد يعيش في القاهرة"),
        ("مستشفى", "في المستشفي الكبير"),
        ("کتاب", "این كتاب خوب است"),
        # emoji, with and without colour and joiners
        ("🎉", "done 🎉🎉"),
        ("👍", "👍🏽 agreed"),
        ("❤️", "I ❤ it"),
        ("🇩🇪", "back from 🇩🇪"),
        # forms of writing
        ("ＦＵＬＬ ｗｉｄｔｈ", "full width"),
        ("weather", "call getWeather first"),
        ("O'Brien", "Mrs O’Brien called"),
        ("cafe", "the Café at the corner"),
    ],
)  # fmt: skip
def test_a_query_meets_the_text(query: str, text: str) -> None:
    assert points(query, text) > 0


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("猫", "我有一只狗"),
        ("Lebensversicherung", "Krankenversicherung"),
        ("🎉", "🎂"),
        ("🇩🇪", "🇫🇷"),
        ("insurance", "the weather is fine"),
        ("", "anything"),
        ("anything", ""),
    ],
)
def test_what_has_nothing_in_common_does_not_meet(query: str, text: str) -> None:
    assert points(query, text) == 0


@pytest.mark.parametrize(
    ("query", "wanted", "others"),
    [
        ("Versicherung", "Die Versicherung zahlt den Schaden", ("Die Krankenversicherung zahlt", "Das Auto ist kaputt")),
        ("苹果手机", "他买了苹果手机", ("她喜欢吃苹果", "手机坏了")),
        ("東京の天気", "東京の天気は晴れ", ("京都の祭り", "大阪の天気")),
        ("การประชุม", "การประชุมเริ่มเก้าโมง", ("ฉันชอบดื่มกาแฟ", "รถติดมาก")),
        ("서울 날씨", "서울의 날씨가 좋다", ("부산의 날씨", "서울에 산다")),
        ("مدرسة البنات", "مدرسة للبنات في المدينة", ("المدرسة مغلقة", "البنت في البيت")),
        ("Who painted the sunrise?", "I painted that sunrise last year", ("Who is there?", "The painted fence", "sunrise at six")),
    ],
)
def test_the_better_text_wins(query: str, wanted: str, others: tuple[str, ...]) -> None:
    assert best(query, *others, wanted) == wanted


class TestStopWords:
    def test_common_words_do_not_count(self) -> None:
        assert points("the garden", "what is it about the office") == 0
        assert best("When did we go to the zoo?", "When did we go to the office?", "the zoo") == "the zoo"

    def test_a_query_of_nothing_else_is_taken_as_it_is(self) -> None:
        assert points("Who are you?", "Who are you?") > 0

    def test_a_short_text_in_another_language_than_guessed_is_met(self) -> None:
        assert latin_languages(["versicherung"])[0] != "de"
        assert points("Versicherung kündigen", "Ich will die Versicherung kündigen, weil sie zu teuer ist") > 0

    def test_the_language_of_a_longer_text_is_told(self) -> None:
        for language, text in {
            "en": "when did you go to the garden with her",
            "de": "ich habe das nicht gewusst und er ist auch nicht da",
            "fr": "je ne sais pas ce que vous avez dit dans le train",
            "es": "no sé por qué los niños están en la casa",
            "sv": "jag vet inte vad han har sagt till henne och mig",
        }.items():
            assert latin_languages(text.split())[0] == language


class TestBounds:
    def test_a_long_message_has_a_bounded_vector(self) -> None:
        long = " ".join(f"word{number} thing" for number in range(4_500))
        assert len(long) > 60_000
        assert len(document_terms(long)) == MAX_TERMS
        assert points("thing", long) > 0

    def test_a_long_query_is_cut_to_its_telling_terms(self) -> None:
        long = " ".join(f"word{number}" for number in range(5_000))
        terms = query_terms(long)
        assert len(terms) <= MAX_QUERY_TERMS
        rare = next(iter(terms))
        weights = query_weights(terms, documents=1000, frequencies=dict.fromkeys(set(terms) - {rare}, 900), most=10)
        assert len(weights) == 10
        assert rare in weights

    def test_a_run_without_spaces_is_bounded(self) -> None:
        assert max(len(word.text) for word in words("x" * 60_000)) <= 64
        assert len(document_terms("汉字" * 30_000)) <= MAX_TERMS

    @pytest.mark.parametrize("text", ["\ud83d", "\x00", "\u200d", "'", "''", "’s", "_", "…", "\ufe0f", "a\ud83db"])
    def test_odd_text_is_no_error(self, text: str) -> None:
        assert document_terms(text) is not None
        assert query_terms(text) is not None


class TestWeights:
    def test_a_term_has_the_same_number_everywhere(self) -> None:
        # Points in a store were written with these numbers: they cannot change without a reindex.
        assert [term_id(term) for term in ("insur", "猫", "🎉")] == NUMBERS

    def test_a_rare_term_counts_more_and_a_common_one_never_below_zero(self) -> None:
        assert rarity(1000, 1) > rarity(1000, 100) > rarity(1000, 1000) > 0
        assert rarity(0, 5) > 0

    def test_a_second_mention_adds_little_and_length_costs_little(self) -> None:
        once, twice = points("garden", "the garden"), points("garden", "the garden garden")
        assert once < twice < 2 * once
        assert points("garden", "the garden " + "and many other words about life " * 5) > once / 2


class TestDates:
    @pytest.mark.parametrize(
        ("query", "said"),
        [
            ("What happened on 8 May 2023?", "2023-05-08"),
            ("in May", "2023-05-08"),
            ("May 8th", "2023-05-08"),
            ("since 2023", "2023-05-08"),
            ("am 8. Mai", "2023-05-08"),
            ("08.05.2023", "2023-05-08"),
            ("2023-05-08", "2023-05-08"),
            ("le 8 mai", "2023-05-08"),
            ("en enero", "2024-01-31"),
            ("2023年5月8日", "2023-05-08"),
            ("5월", "2023-05-08"),
            ("в мае 2023", "2023-05-08"),
        ],
    )
    def test_a_query_names_the_day(self, query: str, said: str) -> None:
        assert query_date_terms(query).keys() & date_terms(datetime.fromisoformat(said).replace(tzinfo=UTC)).keys()

    @pytest.mark.parametrize("query", ["May I come?", "I may be late", "room 12", "they march on", "12:30", ""])
    def test_what_is_no_date_names_none(self, query: str) -> None:
        assert not query_date_terms(query)


def test_names_are_found_in_a_query_whatever_the_accents() -> None:
    assert name_words("José") <= name_words("When did jose call?")
    assert name_words("Anne-Marie") <= name_words("is Anne Marie there")
    assert name_words("李雷") <= name_words("昨天李雷说了什么")


@pytest.mark.parametrize("mark", ["\u02bc", "\u02bcs", "rock \u02bcn\u02bc roll", "l\u02bcamour \u02bc"])
def test_an_apostrophe_that_is_a_letter_may_stand_anywhere(mark: str) -> None:
    assert points("garden", f"the garden {mark} shed") > 0
    assert points(f"{mark} garden", "the garden shed") > 0
