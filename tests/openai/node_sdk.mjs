// Ten turns with the official Node SDK in each of its forms. Arguments: the base URL and the form.
import assert from "node:assert";
import OpenAI from "openai";

const TURNS = 10;
// A stream that was cut off is not repeated by the SDK; its user sends the request again.
const ATTEMPTS = 3;
const [baseURL, form] = process.argv.slice(2);
const client = new OpenAI({ baseURL, apiKey: "any" });
const expected = (turn) => `answer ${2 * turn + 1} word0 word1 word2 word3 word4 word5`;

async function again(request) {
  let cut;
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    try {
      return await request(attempt);
    } catch (error) {
      if (error instanceof assert.AssertionError) throw error;
      cut = error;
      console.log(`  sent again after ${error.constructor.name}`);
    }
  }
  throw cut;
}

const forms = {
  async chat() {
    const messages = [];
    for (let turn = 0; turn < TURNS; turn++) {
      messages.push({ role: "user", content: `question ${turn}` });
      const answer = await client.chat.completions.create({ model: "ctx", messages });
      assert.equal(answer.choices[0].message.content, expected(turn));
      assert.equal(answer.usage.prompt_tokens, 2 * turn + 1);
      messages.push(answer.choices[0].message);
    }
  },
  async chat_stream() {
    const messages = [];
    for (let turn = 0; turn < TURNS; turn++) {
      messages.push({ role: "user", content: `question ${turn}` });
      const text = await again(async () => {
        const stream = client.chat.completions.stream({ model: "ctx", messages });
        return (await stream.finalChatCompletion()).choices[0].message.content;
      });
      assert.equal(text, expected(turn));
      messages.push({ role: "assistant", content: text });
    }
  },
  async responses() {
    let previous = null;
    for (let turn = 0; turn < TURNS; turn++) {
      const body = { model: "ctx", input: `question ${turn}`, previous_response_id: previous };
      const response = await client.responses.create(body);
      assert.equal(response.output_text, expected(turn));
      previous = response.id;
    }
  },
  async responses_stream() {
    let previous = null;
    for (let turn = 0; turn < TURNS; turn++) {
      const body = { model: "ctx", input: `question ${turn}`, previous_response_id: previous };
      const response = await again(async (attempt) => {
        const headers = attempt ? { "x-stainless-retry-count": String(attempt) } : {};
        const stream = client.responses.stream(body, { headers });
        return await stream.finalResponse();
      });
      assert.equal(response.output_text, expected(turn));
      previous = response.id;
    }
  },
};

await forms[form]();
console.log(`${form}: ${TURNS} turns with openai for Node`);
