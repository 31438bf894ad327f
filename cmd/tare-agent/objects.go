package main

import (
	"github.com/spf13/cobra"

	"github.com/tare-mesh/tare/internal/inside/objects"
)

func newObjectsCommand() *cobra.Command {
	var listen, tokenFile, url string
	cmd := &cobra.Command{
		Use:   "objects",
		Short: "Write background services to a Kubernetes API server on this machine",
		Long: `objects creates a Service and an EndpointSlice for each background service, and changes
their addresses, for a client with the token. The API server accepts the same token.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return serveWithToken(cmd, listen, tokenFile, func(token string) (server, error) { return objects.New(token, url, token) })
		},
	}
	f := cmd.Flags()
	f.StringVar(&listen, "listen", "127.0.0.1:9099", "`address` to listen on")
	f.StringVar(&tokenFile, "token-file", "", "`file` with the token that every request needs")
	f.StringVar(&url, "url", "", "`URL` of the API server")
	return cmd
}
