package main

import (
	"net/http"

	"github.com/spf13/cobra"

	"github.com/tare-mesh/tare/internal/base/httpserver"
	"github.com/tare-mesh/tare/internal/inside/service"
)

func newSinkCommand() *cobra.Command {
	listen := "127.0.0.1:4317"
	cmd := &cobra.Command{
		Use:     "sink",
		Short:   "Receive spans by OTLP over gRPC, count and discard them",
		Example: `  tare-agent sink --listen 127.0.0.1:4317`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := service.Listen(listen)
			if err != nil {
				return err
			}
			var both http.Protocols
			both.SetHTTP1(true)
			both.SetUnencryptedHTTP2(true)
			return httpserver.Serve(cmd.Context(), l, &http.Server{Handler: service.NewSink(), Protocols: &both, ReadHeaderTimeout: httpserver.Grace})
		},
	}
	cmd.Flags().StringVar(&listen, "listen", listen, "`address` to listen on: HOST:PORT, or fd:3 for an inherited socket")
	return cmd
}
