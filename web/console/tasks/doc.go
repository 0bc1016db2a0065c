// Package tasks shows tasks on the console and lets people stop or resume them.
//
// list.go lists tasks. task.go shows one: its credentials, its audit entries and a timeline
// (timeline.go, scale.go), and the forms that end it. sandbox.go shows the evidence of the sandbox
// of a task. Listing and stopping are calls of the core, which pages.go lists with the routes.
package tasks
