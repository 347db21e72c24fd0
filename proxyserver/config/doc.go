// Package config reads what a server serves from files: pools, tokens and a TLS
// certificate. It reads them again when they change.
//
// A file that is not valid is rejected with its name and the line, and the
// settings stay as they are. A change counts when two looks in a row find it:
// a file that is still being written may be valid with pools missing at its end.
// A pipe can be read once only: [Start] reads it, and [Watch] leaves it alone.
//
// A program makes a [Source] of each file, calls [Start] before it serves, and
// [Watch] while it does:
//
//	sources := []*config.Source{
//		config.PoolsFrom("config", "pools.yaml", warn, takePools),
//		config.TokensFrom("tokens", "tokens.txt", warn, server.SetTokens),
//	}
//	if err := config.Start(ctx, sources, warn); err != nil {
//		return err
//	}
//	config.Watch(ctx, sources, hangups, server.Reloaded)
package config
