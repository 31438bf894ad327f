package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/httpserver"
	"github.com/tare-mesh/tare/internal/base/regular"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/show/page"
	"github.com/tare-mesh/tare/internal/show/serve"
)

type serveOptions struct {
	listen, token string
	open          bool // without a token
}

func newServeCommand(c *CommandLine) *cobra.Command {
	o := serveOptions{listen: "127.0.0.1:7080"}
	cmd := &cobra.Command{
		Use:   "serve [DIR…]",
		Short: "Show runs in a browser",
		Long: `serve lists the results directories below each DIR (default runs), with the result
and the history of each. It shows the page of a run, two runs compared, and a run
under way. It writes nothing there, and follows no links.

It listens on this machine only, and other users of it need the token in the printed
link. From another machine, forward the port: ssh -L 7080:127.0.0.1:7080 HOST.`,
		Example: `  tare serve
  tare serve runs results/nightly --listen 127.0.0.1:8000`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				args = []string{result.RunsDir}
			}
			return c.serve(cmd.Context(), args, o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.listen, "listen", o.listen, "`address` and port; port 0 takes a free one")
	f.StringVar(&o.token, "token", "", "token that requests need: `@FILE` with it in the first line, @- for standard input, or the token itself (default: random)")
	f.BoolVar(&o.open, "no-token", false, "show the runs to every user of this machine")
	return cmd
}

// A token has bytes within these limits: a shorter one is guessed.
const shortestToken, maxToken = 16, 4096

func (c *CommandLine) serve(ctx context.Context, dirs []string, o serveOptions) error {
	token, err := o.readToken(c.In)
	if err != nil {
		return err
	}
	address, err := net.ResolveTCPAddr("tcp", o.listen)
	if err != nil {
		return hint.Usage(fmt.Errorf("--listen: %w", err), "write it as --listen 127.0.0.1:7080")
	}
	if !address.IP.IsLoopback() {
		return hint.Usage(fmt.Errorf("--listen %s: other machines could read every result", o.listen), "listen on 127.0.0.1, and forward the port from the other machine: ssh -L 7080:127.0.0.1:7080 HOST")
	}
	listener, err := net.ListenTCP("tcp", address)
	if err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	defer listener.Close()
	server, err := serve.New(serve.Config{
		Dirs: dirs, Listen: listener.Addr(), Token: token,
		Page: func(w io.Writer, dir string) error {
			return writeReport(w, dir, reportOptions{format: pageFormat().Name})
		},
		Compare: func(w io.Writer, base, next string) error {
			across, err := compareDirs([]string{base}, next, compareOptions{anyway: true})
			if err != nil {
				return err
			}
			return page.WriteAcross(w, across)
		},
	})
	if err != nil {
		return err
	}
	defer server.Close()
	link := fmt.Sprintf("http://%s/", listener.Addr())
	if o.token == "" && !o.open {
		link += "?token=" + token
	}
	c.Notef("serving %s on %s until Ctrl-C", strings.Join(dirs, ", "), link)
	return httpserver.Serve(ctx, listener, server.HTTP())
}

// readToken reads the token from its file, standard input or the flag. Without any it makes one.
func (o serveOptions) readToken(in io.Reader) (string, error) {
	token := o.token
	switch {
	case o.open && token != "":
		return "", hint.Usage(errors.New("--token and --no-token exclude each other"), "")
	case o.open:
		return "", nil
	case token == "":
		return rand.Text(), nil
	}
	if file, ok := strings.CutPrefix(token, "@"); ok {
		read := func() ([]byte, error) { return regular.ReadInput(file, maxToken) }
		if file == "-" {
			read = func() ([]byte, error) { return io.ReadAll(io.LimitReader(in, maxToken)) }
		}
		text, err := read()
		if err != nil {
			return "", hint.InvalidFile(fmt.Errorf("--token: %w", err))
		}
		token, _, _ = strings.Cut(string(text), "\n")
		token = strings.TrimSpace(token)
	}
	if len(token) < shortestToken {
		return "", hint.Usage(fmt.Errorf("--token has %d characters", len(token)), fmt.Sprintf("take at least %d, such as from: head -c 24 /dev/urandom | base64", shortestToken))
	}
	return token, nil
}
