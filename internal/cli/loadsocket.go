package cli

import (
	"errors"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/tare-mesh/tare/internal/load"
)

type socketFlags struct {
	answer   string
	messages int
}

func (f *socketFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.answer, "ws-answer", "", "answer to a WebSocket message: echo (the same message), message (any), or pong (one-way: that of a ping after the message) (default echo)")
	flags.IntVar(&f.messages, "ws-messages", 0, "messages that answer one, for streams from the server (default 1)")
}

// speak sets the protocol by the URLs, and the answers.
func (f *socketFlags) speak(p *load.Profile) error {
	if slices.ContainsFunc(p.Targets, func(u string) bool { return strings.HasPrefix(u, "ws://") || strings.HasPrefix(u, "wss://") }) && p.Protocol == "" {
		p.Protocol = load.ProtocolWebSocket
	}
	if f.messages < 0 {
		return errors.New("--ws-messages must be above 0")
	}
	if f.answer != "" || f.messages > 0 {
		answer := f.answer
		if answer == "" && f.messages > 1 {
			answer = load.AnswerMessage
		}
		p.WebSocket = &load.WebSocket{Answer: answer, Messages: f.messages}
	}
	return nil
}
