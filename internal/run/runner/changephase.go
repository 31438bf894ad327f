package runner

import (
	"context"
	"fmt"
	"os"

	"github.com/tare-mesh/tare/internal/load/record"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/internal/run/timeline"
)

// answersFile has the answers of the load during a trial with changes. It is removed when the effects are recorded.
const answersFile = "answers.csv"

// changePhase is the changes of one trial.
type changePhase struct {
	setup      *setup
	journal    *journal
	deployment *platform.Deployment
	load       *loadRun
	changes    *timeline.Changes
}

// plan plans the changes. There are none in a trial without.
func (c *changePhase) plan() (err error) {
	c.changes, err = timeline.NewChanges(c.setup.Experiment.Changes, c.setup.of.Seed, c.deployment)
	return err
}

func (c *changePhase) run(ctx context.Context) error {
	return c.changes.Run(ctx, c.load.profile.Start, c.load.edges.begin, c.load.edges.end)
}

// observe records the changes with their effects on the answers of the load.
func (c *changePhase) observe() error {
	path := c.load.profile.AnswersPath
	if path == "" {
		return nil
	}
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("read the answers to the load: %w", err)
	}
	defer f.Close()
	answers, err := record.ReadAnswers(f)
	if err != nil {
		return err
	}
	c.journal.record.Changes = c.changes.Made()
	timeline.Observe(c.journal.record.Changes, answers, c.load.edges.end.Sub(c.load.profile.Start))
	return c.setup.dir.Remove(answersFile)
}
