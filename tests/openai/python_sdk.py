"""Ten turns with the official Python SDK in each of its forms. Arguments: the base URL and the form."""

import sys

import openai

TURNS = 10
# A stream that was cut off is not repeated by the SDK; its user sends the request again.
ATTEMPTS = 3


def expected(turn):
    return f"answer {2 * turn + 1} word0 word1 word2 word3 word4 word5"


def check(text, turn):
    assert text == expected(turn), f"turn {turn}: {text!r}"


def again(request):
    """Repeats a request whose stream was cut off."""
    for attempt in range(ATTEMPTS):
        try:
            return request()
        except (openai.APIError, OSError) as error:
            cut = error
        except Exception as error:  # the HTTP library of the SDK has errors of its own for a cut stream
            if "protocol" not in type(error).__name__.lower():
                raise
            cut = error
        print(f"  sent again after {type(cut).__name__}", flush=True)
    raise cut


def chat(client):
    messages = [{"role": "system", "content": "Be brief."}]
    for turn in range(TURNS):
        messages.append({"role": "user", "content": f"question {turn}"})
        answer = client.chat.completions.create(model="ctx/model/m", messages=messages)
        assert answer.choices[0].finish_reason == "stop", answer
        assert answer.usage.prompt_tokens == 2 * turn + 1, answer.usage
        check(answer.choices[0].message.content, turn)
        messages.append({"role": "assistant", "content": answer.choices[0].message.content})


def chat_stream(client):
    messages = []
    for turn in range(TURNS):
        messages.append({"role": "user", "content": f"question {turn}"})

        def request():
            options = {"include_usage": True}
            stream = client.chat.completions.create(model="ctx", messages=messages, stream=True, stream_options=options)
            chunks = list(stream)
            assert chunks[-1].usage.completion_tokens > 0, chunks[-1]
            return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)

        text = again(request)
        check(text, turn)
        messages.append({"role": "assistant", "content": text})


def responses(client):
    previous = None
    for turn in range(TURNS):
        response = client.responses.create(
            model="ctx", input=f"question {turn}", previous_response_id=previous, instructions="Be brief."
        )
        assert response.status == "completed", response
        check(response.output_text, turn)
        assert client.responses.retrieve(response.id).output_text == response.output_text
        previous = response.id


def conversation_stream(client):
    conversation = client.conversations.create(metadata={"topic": "test"})
    for turn in range(TURNS):

        # The first attempt may have been accepted. The SDK does not repeat a stream, so its header is set here.
        def request():
            stream = client.responses.create(
                model="ctx", input=f"question {turn}", conversation=conversation.id, stream=True,
                extra_headers={"x-stainless-retry-count": "1"} if attempts else {},
            )
            attempts.append(1)
            numbers, final, text = [], None, ""
            for event in stream:
                numbers.append(event.sequence_number)
                if event.type == "response.output_text.delta":
                    text += event.delta
                if event.type == "response.completed":
                    final = event.response
            assert numbers == list(range(len(numbers))), numbers
            assert final is not None and final.output_text == text, (final, text)
            return text

        attempts = []
        check(again(request), turn)
    items = list(client.conversations.items.list(conversation.id, order="asc", limit=100))
    assert len(items) == 2 * TURNS, len(items)


def main():
    base_url, form = sys.argv[1:3]
    client = openai.OpenAI(base_url=base_url, api_key="any")
    assert "ctx/model/m" in [model.id for model in client.models.list()]
    forms = {"chat": chat, "chat_stream": chat_stream, "responses": responses, "conversation_stream": conversation_stream}
    forms[form](client)
    try:
        client.chat.completions.create(model="gpt-4o", messages=[{"role": "user", "content": "x"}])
        raise AssertionError("an unknown model was accepted")
    except openai.NotFoundError as error:
        assert error.code == "model_not_found", error
    print(f"{form}: {TURNS} turns with openai {openai.__version__}")


main()
