module holdback.invalid/pause

go 1.26.0
