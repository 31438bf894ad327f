package main

import (
	"github.com/spf13/cobra"

	"github.com/tare-mesh/tare/internal/load"
)

// Every variant tare knows is listed in this file, one line each.

// commands in the order in which help shows them.
var commands = []func(*cli) *cobra.Command{
}

// catalog is every variant there is, built by a call and passed down.
type catalog struct {
	generators []load.Generator
	platforms  []string
}

func newCatalog() catalog {
	return catalog{
		platforms: []string{"local"},
	}
}
