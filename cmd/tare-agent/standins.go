package main

import (
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/tare-mesh/tare/internal/base/httpserver"
	"github.com/tare-mesh/tare/internal/inside/service"
)

func newCompletionsCommand() *cobra.Command {
	listen := "127.0.0.1:8080"
	c := service.Completions{Tokens: 50, First: 20 * time.Millisecond, Pace: 2 * time.Millisecond}
	cmd := &cobra.Command{
		Use:   "completions",
		Short: "Run a stand-in for a completion server: tokens as server-sent events, at a given pace",
		Long: `completions answers every path as a chat completion of OpenAI's interface, with tokens at
a given pace. It sends the header at once. A request whose body has no
"stream": true has one JSON object as its answer. max_tokens may ask for fewer tokens.`,
		Example: `  tare-agent completions --listen 127.0.0.1:8080 --tokens 100 --first 50ms --pace 5ms`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := service.Listen(listen)
			if err != nil {
				return err
			}
			// No timeouts: that of headers would close idle connections too.
			return httpserver.Serve(cmd.Context(), l, &http.Server{Handler: c, Protocols: httpserver.PlainProtocols()})
		},
	}
	f := cmd.Flags()
	f.StringVar(&listen, "listen", listen, "`address` to listen on: HOST:PORT, or fd:3 for an inherited socket")
	f.IntVar(&c.Tokens, "tokens", c.Tokens, "`number` of tokens of an answer, each an event")
	f.DurationVar(&c.First, "first", c.First, "`time` from a request to its first token")
	f.DurationVar(&c.Pace, "pace", c.Pace, "`time` between two tokens; 0s: all at once")
	return cmd
}

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
			return httpserver.Serve(cmd.Context(), l, &http.Server{Handler: service.NewSink(), Protocols: httpserver.PlainProtocols(), ReadHeaderTimeout: httpserver.Grace})
		},
	}
	cmd.Flags().StringVar(&listen, "listen", listen, "`address` to listen on: HOST:PORT, or fd:3 for an inherited socket")
	return cmd
}
