//! The models that a provider's server lists.

use serde_json::json;

use crate::harness::model_server::{ModelServer, completion};
use crate::harness::server::Server;

#[test]
fn the_models_of_a_provider_are_those_that_its_server_lists() {
    let models = ModelServer::responding(|_, _| completion("ok"));
    let server = Server::configured(&format!(
        "[providers.lists]\nkind = \"openai\"\nbase_url = \"{}/v1\"\nmodel = \"mine\"\n\
         [providers.gone]\nkind = \"openai\"\nbase_url = \"http://127.0.0.1:9/v1\"\nmodel = \
         \"m\"\n",
        models.url
    ));
    let listed = server.get("/api/providers/lists/models").is(200);
    assert_eq!(listed["model"], "mine");
    assert_eq!(listed["models"][0], "mine", "the configured model is first");
    let gone = server.get("/api/providers/gone/models").is(200);
    assert_eq!(gone, json!({"models": ["m"], "model": "m"}));
    server.get("/api/providers/nobody/models").refuses(404, "not_found");
}
