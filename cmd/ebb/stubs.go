package main

import "github.com/spf13/cobra"

func newDoctor(c *cli) *cobra.Command { return c.group("doctor", "x") }
