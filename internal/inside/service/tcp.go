package service

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
)

// serveTCP echoes every connection until ctx ends. A connection counts as one
// request: the configured work is done at its start, and a failure closes it.
func (s *Service) serveTCP(ctx context.Context, l net.Listener) error {
	var open sync.WaitGroup
	ctx, cancel := context.WithCancel(ctx)
	defer open.Wait()
	defer cancel()
	context.AfterFunc(ctx, func() { l.Close() })
	for {
		c, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return nil
			}
			return err
		}
		open.Go(func() { s.echo(ctx, c) })
	}
}

func (s *Service) echo(ctx context.Context, c net.Conn) {
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	defer c.Close()
	s.count.requests.Add(1)
	if n := s.now.Load(); n.work {
		if s.do(ctx, n, incoming{}).status/100 != 2 {
			return
		}
	}
	_, _ = io.Copy(c, c) // fails if the client is gone
}
