package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/session"
)

func newServicesCommand(c *CommandLine) *cobra.Command {
	var change session.Change
	cmd := &cobra.Command{
		Use:   "services [DIR]",
		Short: "Show and change the services of a running trial",
		Long: `services lists the services of the trials that another terminal runs now, with their
configuration. With --patch it changes them while they serve requests: a JSON merge
patch (RFC 7396) of the fields of application.services, as the REST interface takes it
(docs/reference/services.md). Without DIR it takes the newest run in runs/.

The change is in the timeline of the trial and in its record. It invalidates the trial:
the others of its treatment have another configuration. For a change that is measured
write a fault (docs/reference/faults.md).`,
		Example: `  tare services
  tare services --target server --patch '{"delay": "250ms"}'
  tare services --target server-0 --patch '{"errors": {"ratio": 0.1, "status": 503}}'
  tare services runs/mine --target server-0 --patch '{"errors": null}'`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if (change.Target == "") != (change.Patch == "") {
				return hint.Usage(errors.New("--target and --patch need each other"), "write both, or none to list the services")
			}
			if change.Trial != "" && change.Patch == "" {
				return hint.Usage(errors.New("--trial selects what --patch changes"), "add --target and --patch")
			}
			args, err := c.orNewest(args)
			if err != nil {
				return err
			}
			if change.Patch == "" {
				return c.listServices(cmd, args[0])
			}
			made, err := session.ChangeServices(cmd.Context(), args[0], change)
			for _, one := range made {
				fmt.Fprintf(c.Out, "%s changed at %s\n", one.Target, one.At.Format("15:04:05.000"))
			}
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&change.Target, "target", "", "`service` to change, or one of its replicas, such as server-0")
	f.StringVarP(&change.Patch, "patch", "p", "", "JSON merge `patch` of its configuration")
	f.StringVar(&change.Trial, "trial", "", "`trial` to change (default: all that run now)")
	return cmd
}

func (c *CommandLine) listServices(cmd *cobra.Command, dir string) error {
	all, err := session.Replicas(cmd.Context(), dir)
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return hint.New("a trial has services from the end of `deploy` to its end; try again", "no trial of %s has services that can be changed now", dir)
	}
	var rows [][]string
	for _, one := range all {
		text := one.Why
		if text == "" {
			var compact bytes.Buffer
			if err := json.Compact(&compact, []byte(one.Config)); err != nil {
				return fmt.Errorf("read the configuration of %s: %w", one.Name, err)
			}
			text = compact.String()
		}
		rows = append(rows, []string{one.Trial, one.Name, printable.Line(text)})
	}
	return c.Table([]string{"TRIAL", "REPLICA", "CONFIGURATION"}, rows)
}
