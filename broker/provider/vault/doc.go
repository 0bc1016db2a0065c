// Package vault mints credentials with the dynamic secrets engines of Vault or OpenBao: database,
// aws, pki, and others whose responses have a lease
// (https://developer.hashicorp.com/vault/docs/secrets).
//
// The configuration names the path and the policies of each action. CheckSetup checks them on the
// server.
//
// Each lease has its own Vault token. The driver makes it first and saves its accessor before it
// uses the token. Everything that the engine makes belongs to this token. If a response is lost,
// the accessor still revokes all of it, and the server revokes it when the token expires.
package vault
