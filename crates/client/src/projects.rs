//! Projects.

use serde::Serialize;
use serde_json::json;
use stead_domain::page::Page;
use stead_domain::project::Project;

use crate::request::escape;
use crate::{Client, ListOptions, Request, Result};

#[derive(Clone, Debug, Default, Serialize)]
pub struct ProjectEdit {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handle: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

impl Client {
    pub async fn list_projects(&self, options: &ListOptions) -> Result<Page<Project>> {
        self.json(options.apply(Request::get("/v1/projects"))).await
    }

    pub async fn create_project(&self, handle: &str, name: Option<&str>) -> Result<Project> {
        let mut body = json!({ "handle": handle });
        if let Some(name) = name {
            body["name"] = name.into();
        }
        self.json(Request::post("/v1/projects").json(&body)?).await
    }

    pub async fn get_project(&self, handle: &str) -> Result<Project> {
        self.json(Request::get(path(handle))).await
    }

    pub async fn update_project(&self, handle: &str, edit: &ProjectEdit) -> Result<Project> {
        self.json(Request::patch(path(handle)).json(edit)?).await
    }

    /// Deletes a project with its environments and secrets.
    pub async fn delete_project(&self, handle: &str) -> Result<Project> {
        self.json(Request::delete(path(handle)).query("confirm", Some(handle))).await
    }
}

fn path(handle: &str) -> String {
    format!("/v1/projects/{}", escape(handle))
}
