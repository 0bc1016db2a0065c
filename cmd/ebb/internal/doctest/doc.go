// Package doctest runs the shell blocks of a Markdown page as a reader would type them, and
// compares their output with the output that the page shows. Only tests use it.
//
// A page is Markdown with fenced blocks at the start of a line. The word after the fence is the
// language; further words say what the test does with the block:
//
//	sh              runs in the page's shell
//	sh background   runs as in a second terminal, until the end of the page
//	sh exit=3       runs; its last command fails with exit code 3
//	sh no-run       is shown and not run
//	yaml file=NAME  is written to the file NAME; any language
//	text            after a block that ran: its expected output
//
// After sh background the page continues when the output contains the last line of the text block
// that follows. Without a text block it continues at the address of ebb serve, or at the word
// "ready" or "listening".
//
// A comment <!-- needs: postgres redis --> names the counterparts (EBB_TEST_REQUIRE in
// CONTRIBUTING.md) without which the page does not run.
//
//	page.go             Parse: Markdown to steps
//	mask.go             Mask: values that differ in each run
//	compare.go          Compare: expected and actual output
//	shell.go            Shell: one bash for the blocks of a page
//	network_linux.go    a network namespace for it
//	network_other.go    on other systems, none
package doctest
