package main

import (
	"github.com/spf13/cobra"

	"github.com/tare-mesh/tare/internal/inside/objects"
)

func newObjectsCommand() *cobra.Command {
	var url string
	cmd := tokenServer("objects", "Write background services to a Kubernetes API server on this machine", `objects creates a Service and an EndpointSlice for each background service, and changes
their addresses, for a client with the token. The API server accepts the same token.`,
		"127.0.0.1:9099", func(token string) (server, error) { return objects.New(token, url, token) })
	cmd.Flags().StringVar(&url, "url", "", "`URL` of the API server")
	return cmd
}
