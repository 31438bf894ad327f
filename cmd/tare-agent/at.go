package main

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/tare-mesh/tare/internal/base/wait"
)

func newAtCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "at TIME -- PROGRAM [ARGUMENT]…",
		Short: "Replace this process by another program at a time (RFC 3339), at once if it has passed",
		Long: `at waits for an instant of this machine's clock and then becomes the program. Load
workers in several pods begin together by it.`,
		Args: cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			instant, err := time.Parse(time.RFC3339Nano, args[0])
			if err != nil {
				return fmt.Errorf("at: %q is no time", args[0])
			}
			path, err := exec.LookPath(args[1])
			if err != nil {
				return fmt.Errorf("at: %w", err)
			}
			if err := wait.For(cmd.Context(), time.Until(instant)); err != nil {
				return err
			}
			if err := syscall.Exec(path, args[1:], os.Environ()); err != nil {
				return fmt.Errorf("at: become %s: %w", path, err)
			}
			return nil
		},
	}
}
