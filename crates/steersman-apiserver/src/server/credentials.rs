//! Handle: credentials that the caller chooses.

use steersman_registry::auth::User;

use super::ApiServer;

impl ApiServer {
    /// Accepts a token for a user in requests to [`serve`](Self::serve), as with the file of
    /// `--token-auth-file` of a kube-apiserver. The user counts as authenticated. Snapshots do not
    /// contain the token; [`add_user`](Self::add_user) chooses a token that they do contain.
    pub fn accept_token(&self, token: impl Into<String>, user: User) {
        let token = token.into();
        self.context
            .with_registry(|registry| registry.add_token(token, user, false));
    }
}
