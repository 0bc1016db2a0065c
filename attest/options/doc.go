// Package options reads the part of the configuration file that belongs to one kind of
// attestor, provider, sealing key or channel.
//
// Decode reads the part strictly. Its errors name keys as the errors for the rest of the
// file do.
//
// Package options performs no I/O. docs/decisions/0042-strict-options-of-plugin-kinds.md
// says why it is strict.
package options
