package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tare-mesh/tare/internal/app"
	"github.com/tare-mesh/tare/internal/service"
)

// maxConfig bounds a service's configuration, bytes.
const maxConfig = 1 << 20

func newServeCommand() *cobra.Command {
	var (
		listen, config string
		calls          []string
		flags          app.Instance
	)
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Play one service: answer requests with a body of a given size, after calls to other services",
		Example: `  tare-agent serve --listen 127.0.0.1:8080 --response-size 1024
  tare-agent serve --listen 127.0.0.1:8081 --call back=http://127.0.0.1:8080/`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			instance, err := readInstance(config, cmd.InOrStdin())
			if err != nil {
				return err
			}
			if err := override(cmd, &instance, flags, calls); err != nil {
				return err
			}
			return serve(cmd.Context(), cmd.OutOrStdout(), listen, instance)
		},
	}
	f := cmd.Flags()
	f.StringVar(&listen, "listen", "127.0.0.1:8080", "`address` to listen on: HOST:PORT, or fd:3 for an inherited socket")
	f.StringVar(&config, "config", "", "the service as JSON, from a `file` or - for standard input; other flags override it")
	f.StringVar(&flags.Name, "name", "service", "the service's name")
	f.Int64Var(&flags.ResponseSize, "response-size", 0, "length of the answer's body in `bytes`")
	f.IntVar(&flags.Status, "status", 200, "`status` of every answer")
	f.StringArrayVar(&calls, "call", nil, "call another service before answering, `NAME=URL[,URL…]`; repeat for more, in order")
	return cmd
}

func readInstance(path string, stdin io.Reader) (app.Instance, error) {
	var i app.Instance
	var in io.Reader
	switch path {
	case "":
		return i, nil
	case "-":
		in = stdin
	default:
		f, err := os.Open(path)
		if err != nil {
			return i, fmt.Errorf("read the service's configuration: %w", err)
		}
		defer f.Close()
		in = f
	}
	dec := json.NewDecoder(io.LimitReader(in, maxConfig))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&i); err != nil {
		return i, fmt.Errorf("read the service's configuration %s: %w", path, err)
	}
	return i, nil
}

// override puts the flags that were given in place of the configuration's fields.
func override(cmd *cobra.Command, i *app.Instance, flags app.Instance, calls []string) error {
	given := cmd.Flags().Changed
	if given("name") || i.Name == "" {
		i.Name = flags.Name
	}
	if given("response-size") {
		i.ResponseSize = flags.ResponseSize
	}
	if given("status") {
		i.Status = flags.Status
	}
	if !given("call") {
		return nil
	}
	i.Calls = nil
	for _, c := range calls {
		name, urls, ok := strings.Cut(c, "=")
		if !ok {
			return fmt.Errorf("--call %q is not NAME=URL", c)
		}
		i.Calls = append(i.Calls, app.Upstream{Service: name, URLs: strings.Split(urls, ",")})
	}
	return nil
}

func serve(ctx context.Context, out io.Writer, listen string, instance app.Instance) error {
	s, err := service.New(instance)
	if err != nil {
		return err
	}
	l, err := service.Listen(listen)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "tare-agent: service %s answers on %s\n", instance.Name, l.Addr())
	return service.Serve(ctx, l, s)
}
