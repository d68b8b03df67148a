// ctx hooks: begin
// Records prompts, tool uses and ends in the open task of ctx. Written by `ctx hook install pi`;
// `ctx hook uninstall pi` removes it.
import { spawnSync } from "node:child_process";

const PROGRAM = {{PROGRAM}};
const TEXT_MAX = 1000000;

function texts(content) {
  if (typeof content === "string") return content.slice(0, TEXT_MAX);
  const parts = (content ?? []).filter((part) => part.type === "text").map((part) => part.text);
  return parts.join("\n").slice(0, TEXT_MAX);
}

// Synchronous, so that reports arrive in order and before the process ends.
function report(event, context, fields) {
  try {
    const session = context.sessionManager?.getSessionId?.() ?? "";
    spawnSync(PROGRAM, ["hook", "record", "pi", event], {
      input: JSON.stringify({ session_id: session, cwd: context.cwd, ...fields }),
      cwd: context.cwd,
      stdio: ["pipe", "ignore", "ignore"],
      timeout: 2000,
    });
  } catch {}
}

export default function (pi) {
  // ctx observes the agents that it runs.
  if (process.env.CTX_RUN) return;
  pi.on("before_agent_start", (event, context) => {
    report("prompt", context, { prompt: event.prompt });
  });
  pi.on("input", (event, context) => {
    // Without `streamingBehavior` the text starts an answer and is reported above.
    if (event.streamingBehavior) report("prompt", context, { prompt: event.text });
  });
  pi.on("tool_result", (event, context) => {
    report("tool", context, {
      tool: event.toolName,
      input: event.input,
      output: texts(event.content),
      is_error: event.isError,
    });
  });
  pi.on("agent_end", (event, context) => {
    const last = (event.messages ?? []).findLast((message) => message.role === "assistant");
    const completed = last?.stopReason === undefined || last.stopReason === "stop";
    report("turn_end", context, { text: completed ? texts(last?.content) : undefined });
  });
  pi.on("session_shutdown", (event, context) => {
    report("closed", context, { reason: event.reason });
  });
}
// ctx hooks: end
