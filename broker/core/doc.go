// Package core connects the areas of the broker to one Broker.
//
// Each area is a package next to this one. Its Config declares its dependencies: stores,
// limits, shared state, and the methods of other areas that it calls, as interfaces of its own.
// No area imports another; connect.go passes each its dependencies. Broker embeds the areas, so
// that the API, the console and the egress proxy call their methods on one value.
//
// Run does the background work: deadlines, missed heartbeats, expired requests, pending ends, a
// LiveStore that lost data, the revocation feed and checkpoints.
package core
