"""What the tasks of a BERT or a GPT share, and text embeddings."""
