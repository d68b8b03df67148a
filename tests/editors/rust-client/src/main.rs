//! A client of ctx acp with the Rust crate: rust-client ACTION DIR [ARGUMENT]. Prints one JSON
//! document. It follows the crate's example `yolo_one_shot_client`.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{
    CancelNotification, ContentBlock, ForkSessionRequest, InitializeRequest, ListSessionsRequest,
    LoadSessionRequest, NewSessionRequest, PermissionOptionKind, PromptRequest,
    RequestPermissionOutcome, RequestPermissionRequest, RequestPermissionResponse,
    SelectedPermissionOutcome, SessionNotification, SessionUpdate, TextContent,
};
use agent_client_protocol::{AcpAgent, AcpAgentConfig, Agent, Client};
use serde_json::{Value, json};

/// What the editor has received.
#[derive(Default)]
struct Seen {
    text: String,
    users: String,
    asked: usize,
}

type Shared = Arc<Mutex<Seen>>;

async fn wait_for(seen: &Shared, part: &str) {
    while !seen.lock().expect("no panic").text.contains(part) {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

fn text_of(content: &ContentBlock) -> &str {
    match content {
        ContentBlock::Text(text) => &text.text,
        _ => "",
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let action = arguments.next().expect("an action");
    let directory = PathBuf::from(arguments.next().expect("a directory"));
    let argument = arguments.next().unwrap_or_default();
    let agent = AcpAgent::new(AcpAgentConfig::new(std::env::var("CTX")?).arg("acp"));
    let seen = Shared::default();
    let (updates, requests, main) = (seen.clone(), seen.clone(), seen.clone());
    let result = Client
        .v1()
        .on_receive_notification(
            async move |notification: SessionNotification, _cx| {
                let mut seen = updates.lock().expect("no panic");
                match &notification.update {
                    SessionUpdate::AgentMessageChunk(chunk) => {
                        seen.text.push_str(text_of(&chunk.content));
                    }
                    SessionUpdate::UserMessageChunk(chunk) => {
                        seen.users.push_str(text_of(&chunk.content));
                    }
                    _ => {}
                }
                Ok(())
            },
            agent_client_protocol::on_receive_notification!(),
        )
        .on_receive_request(
            async move |request: RequestPermissionRequest, responder, _connection| {
                requests.lock().expect("no panic").asked += 1;
                let allow = request
                    .options
                    .iter()
                    .find(|option| option.kind == PermissionOptionKind::AllowOnce)
                    .expect("an option");
                let chosen = SelectedPermissionOutcome::new(allow.option_id.clone());
                responder.respond(RequestPermissionResponse::new(
                    RequestPermissionOutcome::Selected(chosen),
                ))
            },
            agent_client_protocol::on_receive_request!(),
        )
        .connect_with(agent, |connection: ConnectionTo<Agent>| async move {
            act(&connection, &main, &action, directory, argument).await
        })
        .await?;
    println!("{result}");
    Ok(())
}

async fn act(
    connection: &ConnectionTo<Agent>,
    seen: &Shared,
    action: &str,
    directory: PathBuf,
    argument: String,
) -> Result<Value, agent_client_protocol::Error> {
    let initialize = InitializeRequest::new(ProtocolVersion::V1);
    let initialized = connection.send_request(initialize).block_task().await?;
    assert_eq!(initialized.agent_info.expect("a name").name, "ctx");
    if action == "list" {
        let listed =
            connection.send_request(ListSessionsRequest::new().cwd(directory)).block_task().await?;
        let ids: Vec<String> =
            listed.sessions.iter().map(|session| session.session_id.to_string()).collect();
        return Ok(json!({"sessions": ids}));
    }
    if action == "load" {
        let load = LoadSessionRequest::new(argument, directory);
        connection.send_request(load).block_task().await?;
        wait_for(seen, "two").await;
        let seen = seen.lock().expect("no panic");
        return Ok(json!({"text": seen.text, "users": seen.users}));
    }
    let session = if action == "fork" {
        let fork = ForkSessionRequest::new(argument.clone(), directory);
        connection.send_request(fork).block_task().await?.session_id
    } else {
        connection.send_request(NewSessionRequest::new(directory)).block_task().await?.session_id
    };
    if action == "new" {
        return Ok(json!({"session": session.to_string()}));
    }
    let words = if action == "fork" { "m2: say forked".to_owned() } else { argument };
    let blocks = vec![ContentBlock::Text(TextContent::new(words))];
    let prompt = connection.send_request(PromptRequest::new(session.clone(), blocks)).block_task();
    let watch = async {
        if action == "cancel" {
            wait_for(seen, "begun").await;
            connection.send_notification(CancelNotification::new(session.clone()))?;
        }
        if action == "stream" {
            wait_for(seen, "two").await;
            println!("{}", json!({"session": session.to_string()}));
        }
        Ok::<(), agent_client_protocol::Error>(())
    };
    let (answer, watched) = tokio::join!(prompt, watch);
    watched?;
    let stop = serde_json::to_value(answer?.stop_reason).unwrap_or_default();
    let seen = seen.lock().expect("no panic");
    Ok(json!({"session": session.to_string(), "stop": stop, "text": seen.text, "asked": seen.asked}))
}
