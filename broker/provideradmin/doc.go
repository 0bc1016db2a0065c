// Package provideradmin lists providers and their state, keeps the operator's secrets for them,
// and tests a provider by minting and revoking a credential in a task of its own.
package provideradmin
