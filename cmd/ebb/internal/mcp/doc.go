// Package mcp offers ebb to MCP clients as tools (Model Context Protocol). It is a client
// of the API like any other: it acts as one sandbox, decides nothing, and returns
// identifiers, placeholders and addresses, never a secret.
//
// A Service offers the tools over standard streams or HTTP. Over HTTP it checks host, origin, token
// and size. A call's arguments are untrusted and are parsed strictly. A request that waits for an
// approval stays at the desk while clients come and go. Its outcome is returned without the
// credential. A refusal names the next step. Running calls are counted, so that a stop can wait for
// them.
package mcp
