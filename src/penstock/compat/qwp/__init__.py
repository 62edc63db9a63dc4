"""QWP, the ingestion protocol of QuestDB clients, over WebSocket."""
